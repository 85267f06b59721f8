"""ray job submit --working-dir . -- python jobs/stitch.py jobs/recipes/stitching.yaml [key=value ...]"""

from _job import main

main()
