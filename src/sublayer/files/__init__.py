"""Files as every other room writes them: whole or absent, and a cache folder for what can be made again."""
