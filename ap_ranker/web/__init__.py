"""The website: page, API, owner's page; nothing below imports it."""
