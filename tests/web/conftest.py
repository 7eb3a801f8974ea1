"""Here so that the directories below find the modules beside it: `serving`."""
