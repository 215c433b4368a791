"""Is the appliance well: word to systemd, watchdogs, vital signs, the doctor."""
