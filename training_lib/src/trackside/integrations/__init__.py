"""Ways into the tools that people train with: callbacks, sinks for findings, a pytest plugin. One file each."""
