"""The local API: what a technician's tools ask the running core."""
