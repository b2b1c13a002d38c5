"""A node: the process that hosts conductors, role actors and supervisors of the runs a host was given."""
