"""Where slides are worked on: processes of this machine, or of a Ray cluster."""
