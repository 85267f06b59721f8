"""ray job submit --working-dir . -- python jobs/evaluate.py jobs/recipes/quickstart.yaml [key=value ...]"""

from _job import main

main()
