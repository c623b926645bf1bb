/**
 * Why a text can't be read. The message continues a sentence that begins with the place of the text, and says what to do
 * after a colon. It never repeats the text, which may hold a password.
 */
export class Fault extends Error {}
