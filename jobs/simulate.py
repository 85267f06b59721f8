"""ray job submit --working-dir . -- python jobs/simulate.py jobs/recipes/simulation.yaml [key=value ...]"""

from _job import main

main()
