"""The HTTP in front of the emulated cloud: Google's paths, and ``/emulator`` for its owner."""
