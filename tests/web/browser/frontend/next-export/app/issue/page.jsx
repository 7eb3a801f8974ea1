import Link from "next/link";
import Reader from "../Reader";

export default function Issue() {
  return <main><h1>The issue</h1><p>All of its pages.</p><Reader /><Link href="/">Home</Link></main>;
}
