"""Finds and opens what users name: files, folders, patterns, URLs, saved reports.

    discovery       finds the files in folders, patterns and URLs
    sniffing        what a file is by its first bytes, and which files count
    opening         opens any of them
    other_files     what a file is that nothing here reads, for an error that says what to give instead
    storage         reads and writes files: local ones and, through `remote`, others
    remote          files at URLs of fsspec
    rank_groups     which files are ranks of one run
    capture_files   which files are captures of graphs
    saved_reports   reports and differences, read back

What a command or a function takes as an input is found and opened here, and nowhere else.
"""
