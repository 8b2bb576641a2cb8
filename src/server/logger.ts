/** The part of a pino logger that the server uses. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const nothing = (): void => {}

/** Says nothing: for programs that mount the app without asking for logs. */
export const silentLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing }
