/** A column of a workbook that is written. */
export interface WorkbookColumn {
  readonly name: string;
  /** `number`: decimals. `moment`: ISO 8601 time. `date`: ISO 8601 day. Other values are written as text. */
  readonly kind: 'text' | 'number' | 'moment' | 'date';
  /** In characters; default: what values of its kind need. */
  readonly width?: number;
  /** Texts whose cells are coloured. */
  readonly tones?: Readonly<Record<string, Tone>>;
}

/** The meaning of a colour. */
export type Tone = 'good' | 'bad' | 'warn' | 'muted';

/** The tones of verdicts on purchase codes. */
export const VERDICT_TONES: Readonly<Record<string, Tone>> = {
  valid: 'good',
  invalid: 'bad',
  no_longer_valid: 'bad',
  unproven: 'warn',
  rejected: 'muted',
  pending: 'muted',
};
