"""Studies behind settings, defaults and remarks: run as `python -m matcha_paper.studies.NAME`.

Each module says what it asks, how it is run and what it prints.
"""
