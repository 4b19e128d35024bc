#!/bin/sh
echo refreshed > .refreshed
rm -f notes.txt
