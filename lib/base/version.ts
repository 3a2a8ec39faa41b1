/** The version from package.json. It's a constant because bundling would lose a file that's read at run time. */
export const VERSION = '0.1.0'
