"""Install ctxtop's hooks in the settings of a user or a project, and uninstall them."""
