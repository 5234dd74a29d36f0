"""Public package of Carrel: its version, and the interfaces of plugins in ``carrel.plugins``.

Importing ``carrel`` imports nothing else. The service itself is the package ``app``, which is private: its modules and
names change without notice. A plugin imports from ``carrel`` alone.
"""

__version__ = "0.1.0"
