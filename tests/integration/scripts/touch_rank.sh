#!/bin/sh
# Says which file it makes, which has its rank as name.
echo "rank $RANK makes $1/$RANK"
touch "$1/$RANK"
