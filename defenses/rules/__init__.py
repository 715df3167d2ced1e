"""Rules: functions of the server's matrix of updates, or classes with a memory."""
