"""The version, alone so that asking for it loads nothing else."""

VERSION = "0.1.0"
