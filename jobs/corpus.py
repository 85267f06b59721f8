"""ray job submit --working-dir . -- python jobs/corpus.py jobs/recipes/quickstart.yaml [key=value ...]"""

from _job import main

main()
