import "./globals.css";

export const metadata = { title: "Magazine" };

export default function Layout({ children }) {
  return <html lang="en"><body>{children}</body></html>;
}
