"""The orders in which a stream delivers captures: by batch, URL, date or rank."""
