"""Pages for people: made on the server, complete without scripts, a little quicker with them.

    pages/         one module for each page: home, search, calendar, explore, compare, crawls, studies, volumes, the
                   banner above an archived page, and what is shown when there is nothing to show
    comparison/    what differs between two captures
    coherence      how near in time the parts of a page were captured
    history        the captures of one URL, each marked as changed or unchanged
    display        times, sizes and addresses in words; archived text is hostile, and is made harmless here
    study_runs     studies that run for a page
    render         templates, and the headers that every page carries
    static_files   style sheets and scripts, named by their content, so that browsers keep them for good

Nothing here runs archived code or loads anything from outside: the policy in `render` allows neither.
"""
