"""The pages, one module each: its routes, what its address asks for, and the values for its template.

Every page is found by address alone, so it can be kept or sent on. Reading needs a token where the archive does; what
access rules hide is neither shown nor counted.
"""
