/** From what training left behind to a folder that others load. */
export { EXPORT_DTYPES, type ExportDType, type ExportOptions, type ExportResult, exportModel } from './export-model.js';
export { type FoundModel, findModel } from './find-model.js';
