"""Where slides are worked on: processes of this machine."""
