"""ray job submit --working-dir . -- python jobs/expose.py jobs/recipes/exposure.yaml [key=value ...]"""

from _job import main

main()
