"""How a page looks, as CSS: on a screen, on a phone, and on paper; no colour carries a meaning of its own."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light; --ink: #222; --soft: #555; --line: 1px solid #d4d4d4; --end: 1px solid #222; }
body { max-width: 1132px; margin: 0 auto; padding: 24px 16px 32px; color: var(--ink); background: #fff;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: break-word; -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
* { box-sizing: border-box; }
h1 { margin: 0 0 12px; font-size: 1.75rem; line-height: 1.2; }
h2 { margin: 2em 0 .6em; padding-top: .6em; border-top: var(--line); font-size: 1.25rem; line-height: 1.3; }
p, ul { margin: 0 0 12px; max-width: 46rem; }
ul { padding-left: 1.3em; }
a { color: #0b5394; }
nav ul, .legend { display: flex; flex-wrap: wrap; gap: 2px 20px; max-width: none; padding: 0; list-style: none;
  margin: 16px 0 8px; font-size: .875rem; }
.swatch { width: .9em; height: .9em; border: 1px solid #666; }
figure, details { margin: 16px 0 24px; }
summary { cursor: pointer; font-weight: 600; margin-bottom: 8px; }
figcaption { max-width: 46rem; margin: 8px 0; color: var(--soft); font-size: .875rem; line-height: 1.4; }
footer { margin-top: 2rem; padding-top: 12px; border-top: var(--line); color: var(--soft); font-size: .8rem; }
/* A shadow where there is more to see. */
.scroll { overflow-x: auto; background: linear-gradient(to left, #fff 40%, #fff0) right / 40px 100% no-repeat local,
  linear-gradient(to left, #0004, #0000) right / 12px 100% no-repeat; }
table { border-spacing: 0; font-size: .9375rem; line-height: 1.3; font-variant-numeric: tabular-nums lining-nums; }
th, td { padding: 6px 14px; border-bottom: var(--line); text-align: right; vertical-align: top; }
thead th { border-bottom: var(--end); font-size: .87em; vertical-align: bottom; }
tbody th { max-width: 20rem; font-weight: 600; }
tr > :first-child { padding-left: 0; text-align: left; }
@media screen {
  tr > :first-child { position: sticky; left: 0; z-index: 1; background: #fff; }
}
tbody:last-child tr:last-child > * { border-bottom: var(--end); }
tbody.reference > tr > * { color: var(--soft); font-style: italic; font-weight: 400; }
tbody + tbody > tr:first-child > * { border-top: var(--end); padding-top: 10px; }
td, td small { white-space: nowrap; }
td small { display: block; color: var(--soft); font-size: .8em; }
td.shaded { border-left: 1px solid #fff; border-bottom-color: #fff; text-align: center; }
td.shaded small { color: inherit; }
td.shaded, .swatch { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
.swatch, .legend svg { display: inline-block; margin-right: 6px; vertical-align: -.1em; }
.pictures > div { display: grid; grid-template-columns: repeat(var(--wide), minmax(0, 1fr)); gap: 10px 12px;
  max-width: calc(var(--wide) * (var(--largest) + 12px) - 12px); }
.pictures img { display: block; width: 100%; }
.pictures > div > div { display: flex; flex-direction: column; justify-content: flex-end; }
.pictures span { margin-bottom: 3px; font-size: .875rem; line-height: 1.3; overflow-wrap: anywhere; }
.charts > div { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, var(--least)), 1fr));
  gap: 20px 16px; }
.charts > div > svg { display: block; max-width: 100%; height: auto; }
dl { columns: 24rem 2; column-gap: 32px; margin: 0 0 20px; font-size: .875rem; line-height: 1.4; }
dl > div { display: grid; grid-template-columns: minmax(7rem, 2fr) 3fr; gap: 12px; padding: 4px 0;
  border-bottom: var(--line); break-inside: avoid; overflow-wrap: anywhere; }
dt { color: var(--soft); }
dd { margin: 0; font-variant-numeric: tabular-nums; }
@media (max-width: 600px) {
  table { font-size: .875rem; }
  tr > :first-child { border-right: var(--line); }
  h1 { font-size: 1.4rem; }
  th, td { padding: 6px 7px; }
  tbody th { min-width: 5rem; max-width: 8.5rem; }
  .pictures > div { grid-template-columns: repeat(var(--narrow), minmax(0, 1fr)); column-gap: 8px; }
}
@page { size: A4; margin: 14mm 12mm; }
@media print {
  html { font-size: 10pt; }
  body { max-width: none; padding: 0; }
  .scroll { overflow: visible; }
  table { font-size: min(9pt, calc(515pt / var(--ems))); }
  th, td { padding: .4em .6em; white-space: normal; }
  tbody th { max-width: none; overflow-wrap: anywhere; }
  summary { list-style: none; }
  tr, svg, summary, .pictures { break-inside: avoid; }
  h2, summary, .legend, .table > figcaption { break-after: avoid; }
  details::details-content { display: block; content-visibility: visible; }
}
"""
