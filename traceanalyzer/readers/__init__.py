"""From files to traces. One package per format."""
