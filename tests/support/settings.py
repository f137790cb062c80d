"""Settings of a session that are put back."""

from contextlib import contextmanager


@contextmanager
def setting(session, key, value):
    """Give a setting another value meanwhile."""
    before = session.conf.get(key, None)
    session.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(key)
        else:
            session.conf.set(key, before)
