"""The emulated cloud without any HTTP, process or clock of its own."""
