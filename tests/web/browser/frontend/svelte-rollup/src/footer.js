export default (w) => `Seen at ${w.location.protocol}//${w["location"].hostname}${w.document.location.pathname}`;
