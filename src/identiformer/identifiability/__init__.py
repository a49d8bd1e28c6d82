"""Which attention weights a head could have had for the same output."""
