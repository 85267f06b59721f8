"""ray job submit --working-dir . -- python jobs/map.py jobs/recipes/density.yaml [key=value ...]"""

from _job import main

main()
