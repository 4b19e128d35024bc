"""One agent of what plugins contribute: collect, build, gate, run."""
