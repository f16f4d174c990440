"""One workflow per command: paths in, paths out; a command minus its options."""
