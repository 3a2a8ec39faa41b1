/** The version from package.json. It's a constant because a file read at run time would get lost in a bundle. */
export const VERSION = '0.1.0'
