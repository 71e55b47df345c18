"""Jobs: an agent run is started once, ends, is cleaned up, and can be found again.

They judge the Jobs of agents, known by the labels of their pods: in the templates, and each before it is created.
"""

from policies.jobs import contents as contents
from policies.jobs import running as running
