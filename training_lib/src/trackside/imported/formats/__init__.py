"""The formats of logs, one file each; `imported.finding` walks this package."""
