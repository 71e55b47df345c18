"""Reports: findings as the tools of others read them. Pure: findings in, text out."""
