"""Pages for people: made on the server, whole without a script, and a little quicker with one.

    home           one box for an address or words, the collections, what is new, how much was saved
    searching      an address leads to its calendar, words to the addresses that have them
    calendar       the captures of one address by year, day and hour, changed ones told from unchanged ones
    listing        the addresses below a directory, a host or a domain, page by page
    replay_page    the frame around an archived page: when it was, what was before and after
    missing        what to say when there is nothing, or not for everybody
    rendering      templates, and the headers that every page carries
    display        words for times, sizes and addresses; archived text is hostile, and is made harmless here
    readable       addresses in their own letters, one form for each
    pasted         the page that is meant by the address of one of its captures
    static         style sheets and scripts, named by their content, so that browsers keep them for good

Nothing here runs archived code or names anything outside: the policy in `rendering` allows neither.
"""
