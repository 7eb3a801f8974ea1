export const other = (items) => items.map(({ name }) => name).join(" and ");
