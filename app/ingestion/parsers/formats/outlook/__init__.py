"""Parser of Outlook messages (MSG): properties, bodies in three formats, and attached messages ([MS-OXMSG])."""
