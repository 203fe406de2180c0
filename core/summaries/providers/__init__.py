"""Models that can write a summary. None is called unless the user names one."""
