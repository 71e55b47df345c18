"""Rights: an account may do what it needs and no more."""
