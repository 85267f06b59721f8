"""ray job submit --working-dir . -- python jobs/extract.py jobs/recipes/quickstart.yaml [key=value ...]"""

from _job import main

main()
