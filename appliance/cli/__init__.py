"""The technician's commands. They ask the running service over its socket and never open its database."""
