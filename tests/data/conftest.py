from hypothesis import settings

# No test depends on the clock, and none writes beside the sources.
settings.register_profile("course", deadline=None, database=None)
settings.load_profile("course")
